-- uses: enrol
-- keys: config counts labels
-- args: new_config growth instance keep_log batch_size mixture_growth route_growth metrics* limited* names* seedless*

-- Creates an experiment whose generators have `names`, in order. batch_size: '' where samples have no indices. metrics: the
-- labels of all, that of the one that decides first; limited: of others that decide, too. mixture_growth: by which part its samples grow until the mixture is made
-- again, '' where the goal is another; route_growth: the same of the model that routes prompts. seedless: 1 of each
-- generator that ignores seeds, else 0. Answers 1 if created, 0 if it existed already.
local standing = redis.call('GET', config)
if standing == new_config then
  return {'ok', 0}
elseif standing then
  return {'conflict', 'an experiment of this name exists with another configuration'}
end

redis.call('SET', config, new_config)
redis.call('HSET', counts, 'growth', growth, 'instance', instance, 'keep_log', keep_log,
  'rounds', 0, 'told', 0, 'claims', 0)
if batch_size ~= '' then
  redis.call('HSET', counts, 'batch_size', batch_size)
end
redis.call('RPUSH', labels, unpack(metrics))
if #limited > 0 then
  redis.call('HSET', counts, 'limited', table.concat(limited, ' '))
end
if mixture_growth ~= '' then
  redis.call('HSET', counts, 'mixture_growth', mixture_growth)
end
if route_growth ~= '' then
  redis.call('HSET', counts, 'route_growth', route_growth)
end
for i, name in ipairs(names) do
  enrol(i - 1, name, seedless[i])
end
return {'ok', 1}
