-- uses: prelude enrol
-- keys: generators states controls
-- args: name limit control value seedless

-- Adds a generator, where there are fewer than `limit`, and sets a control with it ('' for none). seedless: 1 if it
-- ignores seeds. Answers the ordinal of the generator of this name; idempotent.
local known = redis.call('HGETALL', generators)
for i = 1, #known, 2 do
  if known[i + 1] == name then
    if redis.call('HGET', states, known[i]) == 'retired' then
      return {'conflict', 'the generator of this name was retired: choose another name'}
    end
    return {'ok', tonumber(known[i])}
  end
end
local g = #known / 2
if g >= tonumber(limit) then
  return {'full', 'expected at most ' .. limit .. ' generators'}
end
enrol(g, name, seedless)
if control ~= '' then
  redis.call('HSET', controls, control, value)
end
changed()
return {'ok', g}
