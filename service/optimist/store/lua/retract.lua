-- uses: prelude units chunks retracted named_batch levels told forgetting audits
-- keys: log told decision units claims claimed_until checks named_copies quarantined fitted generators states returned counts retractions
-- args: until_then who reason kernels max_single channel experiment

-- Retracts the named batch, or everything that the generator was told, with until_then only up to that position. The
-- retraction is an entry of the log itself, and has a record in `retractions`. kernels: 1 where the first samples fix a
-- part of one of the metrics, which are fixed anew; 0 with until_then. max_single: how many single batches of an experiment may
-- be retracted. Answers the record as fields and values, none where the generator has no batches; 1 if it was retracted
-- before; 1 if a decision was dropped.

local KEPT = 20000 -- the most entries that may follow until_then: they are counted
local PAGE = 100

local function impossible(text)
  return {'not-retractable', text}
end

local function entry_at(g, seq)
  local found = redis.call('XRANGE', log .. ':' .. g, seq .. '-0', seq .. '-0')[1]
  local fields = {}
  for i = 1, found and #found[2] or 0, 2 do
    fields[found[2][i]] = found[2][i + 1]
  end
  return found and fields
end

-- Whether a generator's log still holds every batch that counts.
local function is_whole(g)
  local first = redis.call('XRANGE', log .. ':' .. g, '-', '+', 'COUNT', 1)[1]
  local seq = tonumber(redis.call('HGET', counts, g .. ':seq'))
  return seq == 0 or (first and tonumber(first[1]:match('^%d+')) <= math.max(1, restarted(g)))
end

local every = all_labels()

-- The position of the newest snapshot of all metrics.
local function newest_snapshot(g)
  local newest = 0
  for _, label in ipairs(every) do
    newest = math.max(newest, snapshot_seq(unit_of(g, label)))
  end
  return newest
end

local function drop_snapshot(g, label)
  local unit, start = unit_of(g, label), restarted(g)
  drop_upload(unit)
  drop(unit, 'snapshot')
  forget_facts(unit, 'snapshot', 'snapshot_chunks', 'snapshot_seq', 'snapshot_digest', 'snapshot_chain')
  redis.call('HSET', units, unit .. ':snapshot_bytes', start > 0 and entry_at(g, start).bytes or 0)
end

local g, at = named_batch('not-retractable')
if not g then
  return at
end
local is_one = at > 0
local last = tonumber(until_then)
local is_part = last ~= nil -- of the log
local name = redis.call('HGET', generators, g)

local seq, samples, batches, bytes, chain, all_told = unpack(redis.call('HMGET', counts, g .. ':seq', g .. ':samples',
  g .. ':batches', g .. ':bytes', 'chain_' .. g, 'told'))
seq, samples, batches = tonumber(seq), tonumber(samples), tonumber(batches)
local start = restarted(g)
if last == seq then
  last, is_part = nil, false
end

-- The samples and batches that count after a position.
local function counted_after(position)
  local rows, found, from = 0, 0, position + 1
  while from <= seq do
    local page = redis.call('XRANGE', log .. ':' .. g, from .. '-0', '+', 'COUNT', PAGE)
    from = #page > 0 and from or seq + 1
    for _, item in ipairs(page) do
      local at_seq, own_rows = tonumber(item[1]:match('^%d+')), 0
      for i = 1, #item[2], 2 do
        if item[2][i] == 'rows' then
          own_rows = tonumber(item[2][i + 1])
        end
      end
      if own_rows > 0 and not is_retracted(g, at_seq) then
        rows, found = rows + own_rows, found + 1
      end
      from = at_seq + 1
    end
  end
  return rows, found
end

-- What is retracted: `entry` and the samples and batches that leave the counts.
local entry, lost_rows, lost_batches = nil, samples, batches
if is_one then
  local known = retraction_of(g, at)
  if not known and at <= start then
    known = retraction_of(g, redis.call('HGET', counts, g .. ':restarted_by'))
  end
  if known then
    return {'ok', entry_in(retractions, known), 1, 0}
  end
  entry = entry_at(g, at)
  local newest = newest_snapshot(g)
  if not entry or (at <= newest and not is_whole(g)) then
    local left = newest < seq and 'batches from position ' .. newest + 1 .. ' on, and ' or ''
    return impossible('the batch at position ' .. at .. ' of generator ' .. name .. ' is no longer in the log, which '
      .. 'is trimmed unless the experiment has keep_log; possible: ' .. left .. 'all batches of the generator at once')
  elseif entry.retracts or entry.answers then
    local what = entry.answers and 'an answer' or 'a retraction'
    return {'not-found', 'position ' .. at .. ' of generator ' .. name .. ' is ' .. what .. ', not a batch'}
  elseif tonumber(redis.call('HGET', counts, 'retractions') or 0) >= tonumber(max_single) then
    return impossible('expected at most ' .. max_single .. ' single batches; possible: all batches of a generator at once')
  end
  lost_rows, lost_batches = tonumber(entry.rows), 1
elseif batches == 0 or is_part and last <= start then
  local by = redis.call('HGET', counts, g .. ':restarted_by')
  local known = by and retraction_of(g, by)
  return {'ok', known and entry_in(retractions, known) or {}, 1, 0}
elseif is_part then
  if last < 1 or last > seq then
    return {'not-found', 'generator ' .. name .. ' has no batch at position ' .. last}
  end
  local oldest = redis.call('XRANGE', log .. ':' .. g, '-', '+', 'COUNT', 1)[1]
  oldest = oldest and tonumber(oldest[1]:match('^%d+')) or seq
  oldest = math.max(oldest, seq - KEPT)
  if last < oldest then
    return impossible('what generator ' .. name .. ' was told after position ' .. last .. ' is no longer in the log, '
      .. 'which is trimmed unless the experiment has keep_log; possible: everything up to position ' .. oldest
      .. ' or a later one')
  end
  local rows, found = counted_after(last)
  lost_rows, lost_batches = samples - rows, batches - found
  if lost_batches == 0 then
    return {'ok', {}, 1, 0}
  end
end
local first = is_one and at or 1

-- A decision rests on the batches up to the estimates that it was made by.
local decided, reopened = redis.call('GET', decision), false
if decided then
  local by, seqs = (redis.call('HGET', counts, 'decided') or ''):match('^(%x+) (.*)$')
  reopened = true
  if by == redis.sha1hex(decided) then
    local k = 0
    for used in seqs:gmatch('%d+') do
      if k == tonumber(g) then
        reopened = first <= tonumber(used)
      end
      k = k + 1
    end
  end
end

-- What the first samples fixed of a metric is fixed anew without the batch, if it took part and all logs are whole.
local all = redis.call('HLEN', generators)
local all_whole = kernels == '1'
for h = 0, all - 1 do
  all_whole = all_whole and (is_whole(h) or not is_one and h == tonumber(g))
end
local function took_part(label)
  local from = fact(label, 'fitted_from')
  if not from then
    return true
  end
  for other, last in from:gmatch('(%d+) (%d+)') do
    if other == g and first <= tonumber(last) and tonumber(last) > start then
      return true
    end
  end
  return false
end
local refits = {}
for _, label in ipairs(every) do
  refits[label] = all_whole and redis.call('EXISTS', fitted .. ':' .. label) == 1 and took_part(label)
end

local own = seq + 1
local record = {'generator', g, 'seq', own, 'position', is_one and at or 0, 'until', is_one and 0 or last or own,
                'pick', is_one and entry.pick or 0, 'samples', lost_rows, 'batches', lost_batches, 'who', who,
                'when', string.format('%.6f', now()), 'reason', reason, 'told', all_told, 'reopened', tostring(reopened)}
local digest = redis.sha1hex(table.concat(record, '\n'))
record[#record + 1], record[#record + 2] = 'digest', digest
chain = redis.sha1hex(chain:match(' (%x*)$') .. digest)
samples, batches = samples - lost_rows, batches - lost_batches

-- The first write is the one that Redis refuses when memory is full, so that it refuses all or nothing.
redis.call('XADD', log .. ':' .. g, own .. '-0', 'retracts', 1, 'digest', digest, 'chain', chain, 'bytes', bytes)
local id = redis.call('XADD', retractions, '*', unpack(record))
local is_due = samples >= 2
redis.call('HSET', counts, g .. ':seq', own, g .. ':samples', samples, g .. ':batches', batches,
  'chain_' .. g, own .. ' ' .. chain, g .. ':due_samples', is_due and samples or 0, g .. ':due_seq', is_due and own or 0,
  g .. ':voids', own, 'retracted_' .. g .. '_' .. (is_one and at or own), id)
redis.call('HINCRBY', counts, g .. ':retracted', lost_rows)

-- Whoever has made something of the batch must claim the generator anew, and begins from snapshot and log.
if kernels == '1' then
  redis.call('DEL', claims, claimed_until)
end

local indices = is_one and entry.indices and runs_in(entry.indices) or {}
for i = 1, #indices, 2 do
  unmark_told(g, indices[i], indices[i + 1])
end
if not is_one then
  redis.call('HSET', counts, g .. ':restart', last or own, g .. ':restarted_by', own)
end
if not is_one and not is_part then
  redis.call('HSET', counts, g .. ':handed', 0)
  redis.call('UNLINK', told .. ':' .. g)
end
if is_one or not is_part then
  forget_said(g, is_one and indices or nil, own)
end
forget_previews(g, is_one and at or 1, is_one and at or last)
forget_levels(g, is_one and at or 0)
for _, label in ipairs(every) do
  local unit, from = unit_of(g, label), refits[label] and 0 or first
  redis.call('HDEL', claims, unit)
  redis.call('ZREM', claimed_until, unit)
  forget_derived(g, label, first)
  local mixture, model = unit_of('mixture', label), unit_of('model', label)
  forget_artefact(mixture, mixture, g, from)
  forget_artefact(model, model, g, from)
  forget_artefact(unit_of('table', label), model, g, from)
  if refits[label] then
    redis.call('DEL', fitted .. ':' .. label)
    forget_facts(label, 'fitted', 'fitted_from')
    for h = 0, all - 1 do
      forget_derived(h, label, 1)
      drop_snapshot(h, label)
    end
  elseif not is_one or at <= snapshot_seq(unit) then
    drop_snapshot(g, label)
  else
    drop_upload(unit)
  end
end
if not is_one then
  if redis.call('HGET', counts, 'keep_log') ~= '1' then
    redis.call('XTRIM', log .. ':' .. g, 'MINID', '=', (last or own) .. '-0')
  end
end
if reopened then
  redis.call('DEL', decision)
end

-- The indices of a pick are handed out again.
if is_one and entry.pick ~= '0' and redis.call('HGET', states, g) ~= 'retired' then
  keep_returned(g, indices)
elseif not is_one and not is_part then
  redis.call('HDEL', returned, g)
end

-- The sizes of a generator are measured anew, as the mean of what remains cannot be computed back from an absurd batch;
-- the usual size is computed anew at the next batch of any generator that has enough rows.
redis.call('HDEL', checks, g, 'usual')
for h = 0, all - 1 do
  local sizes = redis.call('HGET', checks, h)
  if sizes then
    redis.call('HSET', checks, h, (sizes:gsub('^(%S+) %S+', '%1 0')))
  end
end

-- The counts of batches that are anomalous, or cannot be read.
local function less(count, by)
  local left = tonumber(redis.call('HGET', counts, g .. ':' .. count) or 0) - by
  redis.call('HSET', counts, g .. ':' .. count, math.max(0, left))
end
if is_one then
  redis.call('HINCRBY', counts, 'retractions', 1)
  less('copies', redis.call('HEXISTS', named_copies, g .. ':' .. at))
  less('quarantined', redis.call('HDEL', quarantined, g .. ':' .. at))
else
  local function is_gone(field)
    local h, position = field:match('^(%d+):(%d+)$')
    return h == g and (not is_part or tonumber(position) <= last)
  end
  for _, field in ipairs(redis.call('HKEYS', quarantined)) do
    if is_gone(field) then
      less('quarantined', redis.call('HDEL', quarantined, field))
    end
  end
  if is_part then
    for _, field in ipairs(redis.call('HKEYS', named_copies)) do
      less('copies', is_gone(field) and 1 or 0)
    end
  else
    redis.call('HSET', counts, g .. ':copies', 0, g .. ':quarantined', 0)
  end
  for h = 0, all - 1 do
    redis.call('HDEL', counts, string.format('%d:same:%d', math.min(g, h), math.max(g, h)))
  end
end

changed()
redis.call('PUBLISH', channel, experiment .. ' ' .. g .. ' ' .. own)
return {'ok', entry_in(retractions, id), 0, reopened and 1 or 0}
