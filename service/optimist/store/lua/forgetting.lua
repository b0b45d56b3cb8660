-- uses: units
-- keys: estimates watched modes mixtures routes curve scoring_errors counts previews

-- Drops what was made of batches that count no longer, or with kernels that are fixed anew.

-- What was made of generator `h` by one metric; of its curve the points from position `from` on.
local function forget_derived(h, label, from)
  local unit = unit_of(h, label)
  redis.call('HDEL', label == '' and estimates or watched, unit)
  redis.call('HDEL', facts_of(label), 'made_' .. unit)
  redis.call('HDEL', modes, unit)
  redis.call('HDEL', scoring_errors, unit)
  local list = curve .. ':' .. unit
  local last = redis.call('LINDEX', list, -1)
  while last and tonumber(last:match('^%d+ (%d+)')) >= from do
    redis.call('RPOP', list)
    last = redis.call('LINDEX', list, -1)
  end
end

-- Whether something of these parts (parts.lua) was made of batches of generator `h` from position `from` on; always
-- where that is 0.
local function includes(parts, h, from)
  local seq = (',' .. parts):match(',' .. h .. ':(%d+):')
  return from == 0 or seq and tonumber(seq) >= from
end

-- The note, and the points of the curve, of what is made of all generators.
local function forget_points(unit, h, from)
  redis.call('HDEL', scoring_errors, unit)
  local list = curve .. ':' .. unit
  local last = redis.call('LINDEX', list, -1)
  while last and includes(last:match('^%d+ %d+ (%S+)'), h, from) do
    redis.call('RPOP', list)
    last = redis.call('LINDEX', list, -1)
  end
end

-- The mixture by one metric, and the points of its curve, that include these batches.
local function forget_mixture(label, h, from)
  local unit = unit_of('mixture', label)
  local standing = redis.call('HGET', mixtures, label)
  if standing and includes(standing:match('^%S+ (%S+)'), h, from) then
    redis.call('HDEL', mixtures, label)
    redis.call('HDEL', facts_of(label), 'made_' .. unit)
  end
  forget_points(unit, h, from)
end

-- The model of contexts, the table, and the points of its curve, that include these batches.
local function forget_routes(h, from)
  local made, of = unpack(redis.call('HMGET', routes, 'made', 'of'))
  if made and includes(made:match('^%S+ (%S+)'), h, from) then
    redis.call('HDEL', routes, 'made', 'model')
    redis.call('HDEL', counts, 'made_routes')
  end
  if of and includes(of, h, from) then
    redis.call('HDEL', routes, 'of', 'table')
  end
  forget_points('routes', h, from)
end

-- The previews of a generator's samples; those of batches at positions `first` to `last`, or all without a last one.
local function forget_previews(g, first, last)
  local list, bodies = previews .. ':' .. g, previews .. ':' .. g .. ':bodies'
  if not last then
    redis.call('UNLINK', list, bodies)
    return
  end
  local stored = redis.call('HGETALL', list)
  for i = 1, #stored, 2 do
    local position = tonumber(stored[i + 1]:match('^(%d+) '))
    if first <= position and position <= last then
      redis.call('HDEL', list, stored[i])
      redis.call('HDEL', bodies, stored[i])
    end
  end
end
