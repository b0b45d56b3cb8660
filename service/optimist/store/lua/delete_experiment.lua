-- uses: chunks
-- keys: all

-- Removes all keys of an experiment. Answers 1 if there was an experiment.
local existed = redis.call('EXISTS', config)
for _, g in ipairs(redis.call('HKEYS', generators)) do
  redis.call('UNLINK', log .. ':' .. g, curve .. ':' .. g)
  drop(g, redis.call('HGET', snapshots, g))
  drop(g, redis.call('HGET', uploads, g))
end
redis.call('UNLINK', unpack(KEYS))
return {'ok', existed}
