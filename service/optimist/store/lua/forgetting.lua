-- uses: units curve
-- keys: estimates artefacts previews

-- Drops what was made of batches that count no longer, or with kernels that are fixed anew.

-- What was made of generator `h` by one metric; of its curve the points from position `from` on.
local function forget_derived(h, label, from)
  local unit = unit_of(h, label)
  redis.call('HDEL', estimates, unit)
  forget_facts(unit, 'seq', 'made', 'error')
  local modes = 'modes:' .. unit
  redis.call('HDEL', artefacts, modes .. ':made', modes .. ':parts', modes .. ':payload')
  forget_points(unit, function(point) return tonumber(point:match('^%d+')) >= from end)
end

-- Whether something of these parts (parts.lua) was made of batches of generator `h` from position `from` on; always
-- where that is 0.
local function includes(parts, h, from)
  local seq = (',' .. parts):match(',' .. h .. ':(%d+):')
  return from == 0 or seq and tonumber(seq) >= from
end

-- What is made of all generators, the note about it, and the points of its curve, where these batches are in it. unit:
-- under whose claim it is made.
local function forget_artefact(artefact, unit, h, from)
  local made_of = redis.call('HGET', artefacts, artefact .. ':parts')
  if made_of and includes(made_of, h, from) then
    redis.call('HDEL', artefacts, artefact .. ':made', artefact .. ':parts', artefact .. ':payload')
  end
  forget_facts(unit, 'error')
  forget_points(artefact, function(point) return includes(point:match('^%d+ (%S+)'), h, from) end)
end

-- The previews of a generator's samples; those of batches at positions `first` to `last`, or all without a last one.
local function forget_previews(g, first, last)
  local list, bodies, places = previews .. ':' .. g, previews .. ':' .. g .. ':bodies', previews .. ':' .. g .. ':places'
  if not last then
    redis.call('UNLINK', list, bodies, places)
    return
  end
  local stored = redis.call('HGETALL', list)
  for i = 1, #stored, 2 do
    local position, index = stored[i + 1]:match('^(%d+) %S+ (%d*)\t')
    position = tonumber(position)
    if first <= position and position <= last then
      redis.call('HDEL', list, stored[i])
      redis.call('HDEL', bodies, stored[i])
      redis.call('HDEL', places, index)
    end
  end
end
