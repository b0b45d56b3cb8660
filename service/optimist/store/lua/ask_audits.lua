-- uses: prelude audits
-- keys: audits audit_leases
-- args: rater holder count seconds most most_raters most_held known wanted*(id index weight raters places)

-- Gives somebody up to `count` of the wanted audits, in their order: first those that they have, then those that fewer
-- than `raters` others have, or have answered. places: the generators whose samples are shown, in that order, with spaces
-- between. most, most_raters: audits of an experiment, and raters of an audit. known: of how many audits the caller knew when
-- it chose: where somebody has asked for new ones since, none is new, so that each is drawn with the chance that its weight
-- says. holder: the access key that asks, '' for none; under all names together it has at most `most_held`. Answers the ids, and 1 where new ones were left out for that.
local deadline = string.format('%.6f', now() + seconds)
redis.call('ZREMRANGEBYSCORE', audit_leases, '-inf', now())
-- A deadline further off than a lease can last means that the server's clock was set back.
redis.call('ZREMRANGEBYSCORE', audit_leases, '(' .. deadline, '+inf')

local held, by_holder = {}, 0 -- the members of leases by audit and rater
for _, lease in ipairs(redis.call('ZRANGE', audit_leases, 0, -1)) do
  local id, name, of = lease:match('^([^\t]*)\t([^\t]*)\t(.*)$')
  held[id] = held[id] or {}
  held[id][name] = lease
  by_holder = by_holder + (holder ~= '' and of == holder and 1 or 0)
end

-- Whether a rater has scored the samples of all these generators.
local function has_scored_all(one, places)
  local has = {}
  for _, pair in ipairs(one.given) do
    has[pair.g] = pair.score ~= ''
  end
  for g in places:gmatch('%d+') do
    if not has[g] then
      return false
    end
  end
  return true
end

-- How many others have it, or have answered it.
local function others_at(id, audit, places)
  local names = {}
  for name in pairs(held[id] or {}) do
    names[name] = true
  end
  for _, one in ipairs(audit and audit.raters or {}) do
    if has_scored_all(one, places) then
      names[one.name] = true
    end
  end
  names[rater] = nil
  local total = 0
  for _ in pairs(names) do
    total = total + 1
  end
  return total
end

-- What a rater is shown: what they have scored, and the rest of what is wanted.
local function shown(own, places)
  local given, has = {}, {}
  for _, pair in ipairs(own and own.given or {}) do
    if pair.score ~= '' or (' ' .. places .. ' '):find(' ' .. pair.g .. ' ', 1, true) then
      given[#given + 1], has[pair.g] = pair, true
    end
  end
  for g in places:gmatch('%d+') do
    if not has[g] then
      given[#given + 1] = {g = g, score = ''}
    end
  end
  return given
end

local answer, taken = {}, {}
local size = redis.call('HLEN', audits)
local is_late = size ~= tonumber(known)

local function give(one, is_own)
  if #answer >= tonumber(count) or taken[one.id] or is_own ~= ((held[one.id] or {})[rater] ~= nil) then
    return
  elseif not is_own and by_holder >= tonumber(most_held) then
    return
  end
  local audit = audit_of(one.id)
  if not is_own and others_at(one.id, audit, one.places) >= tonumber(one.raters) then
    return
  end
  if not audit then
    if is_late or size >= tonumber(most) then
      return
    end
    size = size + 1
    audit = {id = one.id, head = string.format('%s %s %.6f', one.index, one.weight, now()), raters = {}}
  end
  local own = rater_of(audit, rater)
  if not own then
    -- Who let it lie makes room.
    for i, other in ipairs(#audit.raters >= tonumber(most_raters) and audit.raters or {}) do
      if not has_scored(other) and not (held[one.id] or {})[other.name] then
        table.remove(audit.raters, i)
        break
      end
    end
    if #audit.raters >= tonumber(most_raters) then
      return
    end
    own = {name = rater, comment = '', given = {}}
    audit.raters[#audit.raters + 1] = own
  end
  own.given = shown(own, one.places)
  if has_answer(own) then
    return
  end
  put_audit(audit)
  if is_own then
    redis.call('ZREM', audit_leases, held[one.id][rater])
  else
    by_holder = by_holder + (holder ~= '' and 1 or 0)
  end
  redis.call('ZADD', audit_leases, deadline, one.id .. '\t' .. rater .. '\t' .. holder)
  taken[one.id] = true
  answer[#answer + 1] = one.id
end

for _, one in ipairs(wanted) do
  give(one, true)
end
for _, one in ipairs(wanted) do
  give(one, false)
end
if #answer > 0 then
  touch() -- reports say how many are asked
end
return {'ok', answer, is_late and #answer < tonumber(count) and 1 or 0}
