-- uses: units
-- keys: estimates watched artefacts curve scoring_errors counts previews

-- Drops what was made of batches that count no longer, or with kernels that are fixed anew.

-- What was made of generator `h` by one metric; of its curve the points from position `from` on.
local function forget_derived(h, label, from)
  local unit = unit_of(h, label)
  redis.call('HDEL', label == '' and estimates or watched, unit)
  redis.call('HDEL', facts_of(label), 'made_' .. unit)
  redis.call('HDEL', artefacts, 'modes:' .. unit, 'modes:' .. unit .. ' body')
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

-- What is made of all generators under the claim of `unit`, the note about it, and the points of its curve, where these
-- batches are in it.
local function forget_artefact(artefact, unit, h, from)
  local standing = redis.call('HGET', artefacts, artefact)
  if standing and includes(standing:match('^%S+ (%S+)'), h, from) then
    redis.call('HDEL', artefacts, artefact, artefact .. ' body')
    redis.call('HDEL', counts, 'made_' .. artefact)
  end
  redis.call('HDEL', scoring_errors, unit)
  local list = curve .. ':' .. artefact
  local last = redis.call('LINDEX', list, -1)
  while last and includes(last:match('^%d+ %d+ (%S+)'), h, from) do
    redis.call('RPOP', list)
    last = redis.call('LINDEX', list, -1)
  end
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
