-- other keys: config counts ...
-- args: instance seconds

-- Makes staged keys an experiment. The keys beyond the first two are pairs of a staged key and the key that it becomes.
-- seconds: after which `counts` expire, and with them the experiment; 0: never. Answers 1 if it is restored now, 0 if it
-- was before.
if redis.call('EXISTS', config) == 1 then
  if redis.call('HGET', counts, 'instance') == instance then
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
if seconds ~= '0' then
  redis.call('EXPIRE', counts, seconds)
end
return {'ok', 1}
