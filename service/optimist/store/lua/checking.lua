-- uses: prelude retracted levels
-- keys: generators checks counts named_copies

-- Checks batches for values of absurd size and for copies of earlier batches, and keeps their levels.
--
-- `checks` holds, in one hash so that a batch takes one read and one write of it:
--   <g>      "<rows> <rows at the last median> <mean square of each tensor>" of its batches that were not too large
--   usual    "<how many are known> <usual size of each tensor>", '-' where none is known
--   #<4 hex> "<12 hex> <g> <position> <prompts>;" of every content whose digest begins so, once for each generator

local USUAL_ROWS, LARGE = 20, 1000 -- as in plausibility.py
local REMEMBERED, NAMED, LONGEST = 65536, 256, 65536

local function split(text, separator)
  local parts = {}
  for part in (text .. separator):gmatch('([^' .. separator .. ']*)' .. separator) do
    parts[#parts + 1] = part
  end
  return parts
end

-- The lower median of the known sizes above 0.
local function median(known)
  table.sort(known)
  return known[math.floor((#known + 1) / 2)]
end

-- The usual sizes, of all generators that are known, with `own` as the entry of `g`.
local function usual_sizes(g, own, sizes)
  local ordinals = {}
  for i = 1, redis.call('HLEN', generators) do
    ordinals[i] = i - 1
  end
  local entries, known = {}, {}
  for i, entry in ipairs(redis.call('HMGET', checks, unpack(ordinals))) do
    local parts = split(ordinals[i] == tonumber(g) and own or entry or '0', ' ')
    if tonumber(parts[1]) >= USUAL_ROWS then
      entries[#entries + 1] = parts
    end
  end
  known[1] = #entries
  for i, size in ipairs(sizes) do
    local scales = {size.reference}
    for _, parts in ipairs(entries) do
      local square = tonumber(parts[2 + i])
      if square and square > 0 then
        scales[#scales + 1] = math.sqrt(square)
      end
    end
    local scale = median(scales)
    known[1 + i] = scale and string.format('%.17g', scale) or '-'
  end
  return table.concat(known, ' ')
end

-- Whether equal samples are expected, because their prompts are equal. Prompts are compared by the picks' texts where
-- both batches have some, else by their embeddings.
local function is_lawful(made, before)
  local picked, embedded = made:match('^(%x*),(%x*)$')
  local picked_before, embedded_before = before:match('^(%x*),(%x*)$')
  if picked ~= '' and picked_before ~= '' then
    return picked == picked_before
  end
  return embedded ~= '' and embedded == embedded_before
end

-- Compares the samples with those told before. Fills in, where they were told before: `copy`, the position of the same
-- generator; `duplicate`, another generator; and `contents`, the bucket without its old entry, where one is to be added.
local function compare(found, g, contents)
  local rest, known = found.rest, false
  if contents:find(rest, 1, true) then
    local oldest = redis.call('HGET', counts, g .. ':seq') + 1 - REMEMBERED
    for entry, at, position, made in contents:gmatch('(' .. rest .. ' (%d+) (%d+) (%S*);)') do
      local lawful = is_lawful(found.made, made)
      if at ~= g then
        found.duplicate = found.duplicate or not lawful and not is_retracted(at, position) and at or nil
      elseif tonumber(position) > oldest and not is_retracted(g, position) then
        known, found.copy = true, not lawful and position or nil
      else
        local from, to = contents:find(entry, 1, true)
        contents = contents:sub(1, from - 1) .. contents:sub(to + 1)
      end
    end
  end
  if not known then
    found.contents = contents
  end
end

-- Checks a batch by `measures` (`checking.Measures`), '' for no check. Answers what `note` takes, or nil and a refusal.
-- `worker`: that of its pick; `asked`: a digest of the pick's prompts; '', or nil, for none.
local function check(g, rows, measures, worker, asked)
  if measures == '' then
    return {}
  end
  local fields, sizes = split(measures, '\t'), {}
  local limit, refuses, content, embedded = tonumber(fields[1]), fields[2] == '1', fields[3], fields[4]
  for i = 5, #fields, 6 do
    sizes[#sizes + 1] = {name = fields[i], largest = tonumber(fields[i + 1]), row = fields[i + 2],
                         square = tonumber(fields[i + 3]), reference = tonumber(fields[i + 4]),
                         level = tonumber(fields[i + 5])}
    if sizes[#sizes].reference == 0 then
      sizes[#sizes].reference = nil
    end
  end
  local found = {bucket = '#' .. content:sub(1, 4), rest = content:sub(5), sizes = sizes, worker = worker,
                 made = (embedded ~= '' and asked or '') .. ',' .. embedded}
  local own, usual, contents = unpack(redis.call('HMGET', checks, g, 'usual', found.bucket))

  usual = split(usual or '0', ' ')
  local is_large = false
  for i, size in ipairs(sizes) do
    local scale = tonumber(usual[1 + i]) or size.reference
    local times = scale and size.largest / scale
    if scale and times > limit then
      local known = usual[1] == '1' and '1 generator' or usual[1] .. ' generators'
      local whose = not size.reference and known
        or usual[1] == '0' and 'the reference' or 'the reference and ' .. known
      return nil, {'refused', string.format(
        '%s: row %s holds a value of size %.3g, %.3g times the usual size %.3g (lower median of %s); expected at most '
        .. '%g times. Where such values are right, create the experiment with a higher max_magnitude',
        size.name, size.row, size.largest, times, scale, whose, limit)}
    end
    is_large = is_large or (scale and times > LARGE)
  end

  if content ~= '' then
    compare(found, g, contents or '')
  end
  if found.copy and refuses then
    return nil, {'refused', 'the batch repeats the one at position ' .. found.copy .. ' of its generator, and the '
      .. 'experiment refuses copies: make new samples, with the seed of the pick'}
  end

  -- Batches with large values do not change the usual size; otherwise each could be larger than the one before.
  if #sizes > 0 and not is_large then
    local parts = split(own or '0 0', ' ')
    local total, at = parts[1] + rows, tonumber(parts[2]) or 0
    for i, size in ipairs(sizes) do
      local before = tonumber(parts[2 + i]) or 0
      parts[2 + i] = string.format('%.17g', before + (size.square - before) * rows / total)
    end
    -- Not at every batch, because it reads an entry of every generator.
    local anew = total >= USUAL_ROWS and total >= 1.25 * at
    parts[1], parts[2] = string.format('%.0f', total), anew and string.format('%.0f', total) or parts[2]
    found.own = table.concat(parts, ' ')
    found.usual = anew and usual_sizes(g, found.own, sizes) or nil
  end
  return found
end

-- Removes a retracted batch from the named copies. Answers whether there was one. Every anomalous batch comes here once there are
-- `NAMED`, so most are not looked up.
local function makes_room()
  local has_any = {}
  for _, name in ipairs(redis.call('HKEYS', named_copies)) do
    local g, position = name:match('^(%d+):(%d+)$')
    if has_any[g] == nil then
      has_any[g] = redis.call('HEXISTS', counts, g .. ':retracted') == 1
    end
    if has_any[g] and is_retracted(g, position) then
      return redis.call('HDEL', named_copies, name) == 1
    end
  end
  return false
end

-- Stores what `check` found of the batch at position `seq`. `number`: its pick, '0' without one. Answers what is
-- anomalous about it as text, '' for nothing: "<1 if its scale might be anomalous>\t<position that it repeats>\t<pick>
-- <rows> <time> <worker>", the last of which may be missing.
local function note(g, seq, found, number, rows)
  local fields = {}
  if found.own then
    fields[1], fields[2] = g, found.own
  end
  if found.usual then
    fields[#fields + 1], fields[#fields + 2] = 'usual', found.usual
  end
  if found.contents then
    local entry = table.concat({found.rest, g, seq, found.made}, ' ') .. ';'
    local contents = found.contents .. entry
    if #contents > LONGEST then
      contents = contents:match(';(.*)$')
    end
    fields[#fields + 1], fields[#fields + 2] = found.bucket, contents
  end
  if #fields > 0 then
    redis.call('HSET', checks, unpack(fields))
  end
  if found.duplicate and not found.copy then
    local one, other = math.min(g, found.duplicate), math.max(g, found.duplicate)
    redis.call('HINCRBY', counts, string.format('%d:same:%d', one, other), 1)
    note_later()
  end
  local origin, doubt = string.format('%s %s %.3f', number, rows, now()), ''
  if found.worker and found.worker ~= '' then
    origin = origin .. ' ' .. found.worker
  end
  for i, size in ipairs(found.sizes or {}) do
    if size.level and keep_level(g, seq, i - 1, size.level, origin) then
      doubt = '1'
    end
  end
  if not found.copy then
    return doubt ~= '' and doubt .. '\t\t' .. origin or ''
  end
  local oddity = found.copy .. '\t' .. origin
  if redis.call('HLEN', named_copies) < NAMED or makes_room() then
    redis.call('HSET', named_copies, g .. ':' .. seq, oddity)
  end
  redis.call('HINCRBY', counts, g .. ':copies', 1)
  note_later()
  return doubt .. '\t' .. oddity
end
