-- uses: enrol
-- keys: config counts labels
-- args: new_config growth instance keep_log metrics* facts*(name value) names* seedless*

-- Creates an experiment whose generators have `names`, in order. metrics: the labels of all, that of the one that decides
-- first. facts: what else scripts read of it in `counts` (`facts_of` in experiments.py). seedless: 1 of each generator that
-- ignores seeds, else 0. Answers 1 if created, 0 if it existed already.
local standing = redis.call('GET', config)
if standing == new_config then
  return {'ok', 0}
elseif standing then
  return {'conflict', 'an experiment of this name exists with another configuration'}
end

redis.call('SET', config, new_config)
redis.call('HSET', counts, 'growth', growth, 'instance', instance, 'keep_log', keep_log,
  'rounds', 0, 'told', 0)
for _, fact in ipairs(facts) do
  redis.call('HSET', counts, fact.name, fact.value)
end
redis.call('RPUSH', labels, unpack(metrics))
for i, name in ipairs(names) do
  enrol(i - 1, name, seedless[i])
end
return {'ok', 1}
