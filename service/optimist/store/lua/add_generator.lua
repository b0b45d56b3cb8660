-- ARGV: name, most generators; a control's name and value that come with it, if any. Answers its ordinal, which a name
-- keeps: adding again is as good as once.
local known = redis.call('HGETALL', generators)
for i = 1, #known, 2 do
  if known[i + 1] == ARGV[1] then
    if redis.call('HGET', states, known[i]) == 'retired' then
      return {'conflict', 'the generator of this name was retired: choose another name'}
    end
    return {'ok', tonumber(known[i])}
  end
end
local g = #known / 2
if g >= tonumber(ARGV[2]) then
  return {'full', 'expected at most ' .. ARGV[2] .. ' generators'}
end
enrol(g, ARGV[1])
if ARGV[3] then
  redis.call('HSET', controls, ARGV[3], ARGV[4])
end
changed()
return {'ok', g}
