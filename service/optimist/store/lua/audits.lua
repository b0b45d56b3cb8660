-- keys: audits audit_records counts

-- What people are asked. `audits` has by the id of an audit "<index> <weight> <when it was asked>", and for each rater who
-- had it a line "<rater>\t<digest of the last comment>\t<pairs>", with a pair "<g>=<score>" for each generator, in the
-- order in which samples were shown, and without a score before there is one. `audit_leases` is a sorted set of
-- "<id>\t<rater>\t<access key>" by the time until which they have it. `audit_records` is a stream of all that was said (records/audits.py).

local function audit_of(id)
  local text = redis.call('HGET', audits, id)
  if not text then
    return nil
  end
  local head, rest = text:match('^([^\n]*)\n?(.*)$')
  local audit = {id = id, head = head, index = tonumber(head:match('^%d+')), weight = head:match(' (%S+) '), raters = {}}
  for rater, comment, pairs_ in rest:gmatch('([^\t\n]*)\t([^\t\n]*)\t([^\n]*)') do
    local one = {name = rater, comment = comment, given = {}}
    for g, score in pairs_:gmatch('(%d+)=(%S*)') do
      one.given[#one.given + 1] = {g = g, score = score}
    end
    audit.raters[#audit.raters + 1] = one
  end
  return audit
end

local function put_audit(audit)
  local lines = {audit.head}
  for _, one in ipairs(audit.raters) do
    local parts = {}
    for i, pair in ipairs(one.given) do
      parts[i] = pair.g .. '=' .. pair.score
    end
    lines[#lines + 1] = table.concat({one.name, one.comment, table.concat(parts, ' ')}, '\t')
  end
  redis.call('HSET', audits, audit.id, table.concat(lines, '\n'))
end

local function rater_of(audit, name)
  for _, one in ipairs(audit.raters) do
    if one.name == name then
      return one
    end
  end
end

-- Whether a rater has scored all that was shown.
local function has_answer(one)
  for _, pair in ipairs(one.given) do
    if pair.score == '' then
      return false
    end
  end
  return #one.given > 0
end

local function has_scored(one)
  for _, pair in ipairs(one.given) do
    if pair.score ~= '' then
      return true
    end
  end
  return false
end

-- Whether somebody has scored all that they were shown.
local function is_answered(audit)
  for _, one in ipairs(audit.raters) do
    if has_answer(one) then
      return true
    end
  end
  return false
end

local function answered()
  return tonumber(redis.call('HGET', counts, 'audits_answered') or 0)
end

-- Counts an audit as answered, or not, where that has changed.
local function count_answered(before, audit)
  local by = (is_answered(audit) and 1 or 0) - (before and 1 or 0)
  if by ~= 0 then
    redis.call('HINCRBY', counts, 'audits_answered', by)
  end
end

-- What counts of a generator's sample: the mean of all raters, as text; nil where nobody scored it.
local function mean_of(audit, g)
  local sum, count = 0, 0
  for _, one in ipairs(audit.raters) do
    for _, pair in ipairs(one.given) do
      if pair.g == g and pair.score ~= '' then
        sum, count = sum + tonumber(pair.score), count + 1
      end
    end
  end
  return count > 0 and string.format('%.17g', sum / count) or nil
end

local function note_said(kind, audit, rater, g, seq, score, due, comment)
  redis.call('XADD', audit_records, '*', 'kind', kind, 'generator', g, 'seq', seq, 'audit', audit.id, 'index', audit.index,
    'weight', audit.weight, 'rater', rater, 'score', score, 'due', due, 'when', string.format('%.6f', now()),
    'comment', comment)
end

-- Forgets what was said of a generator's samples at these runs of indices, nil for all, which the entry at `seq` of its log
-- has retracted.
local function forget_said(g, runs, seq)
  local function is_gone(index)
    for i = 1, runs and #runs or 0, 2 do
      if index >= runs[i] and index < runs[i] + runs[i + 1] then
        return true
      end
    end
    return runs == nil
  end
  local lost = 0
  for _, id in ipairs(redis.call('HKEYS', audits)) do
    local audit = audit_of(id)
    if is_gone(audit.index) then
      local was_answered = is_answered(audit)
      lost = lost + (mean_of(audit, g) and 1 or 0)
      for _, one in ipairs(audit.raters) do
        for i = #one.given, 1, -1 do
          local pair = one.given[i]
          if pair.g == g then
            table.remove(one.given, i)
            if pair.score ~= '' then
              note_said('void', audit, one.name, g, seq, '', 0, '')
            end
          end
        end
      end
      put_audit(audit)
      count_answered(was_answered, audit)
    end
  end
  if lost > 0 then
    redis.call('HINCRBY', counts, g .. ':scored', -lost)
  end
end
