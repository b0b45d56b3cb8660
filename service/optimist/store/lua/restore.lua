-- KEYS: config and counts of the experiment; then every staged key, before the key that it becomes.
-- ARGV: the experiment's instance. Answers 1 if it is restored, 0 if it was before.
local config, counts = KEYS[1], KEYS[2]
if redis.call('EXISTS', config) == 1 then
  if redis.call('HGET', counts, 'instance') == ARGV[1] then
    return {'ok', 0}
  end
  return {'conflict', 'an experiment of this name exists'}
end
for i = 3, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 0 then
    return {'not-found', 'the import took too long and has expired'}
  end
end
for i = 3, #KEYS, 2 do
  redis.call('RENAME', KEYS[i], KEYS[i + 1])
  redis.call('PERSIST', KEYS[i + 1])
end
return {'ok', 1}
