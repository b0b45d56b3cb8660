-- uses: enrol
-- keys: config counts contexts routes
-- args: new_config growth instance keep_log batch_size labels mixture_growth route_growth names*

-- Creates an experiment whose generators have `names`, in order. batch_size: '' where samples have no indices. labels: of
-- its watched metrics, with spaces between. mixture_growth: by which part its samples grow until the mixture is made
-- again, '' where the goal is another; route_growth: the same of the model that routes prompts. Answers 1 if created, 0
-- if it existed already.
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
-- A scorer that knows of no watched metrics would trim the log as soon as the primary one has a snapshot: its script
-- cannot number the claims of this experiment, see claim.lua.
if labels ~= '' then
  redis.call('HSET', counts, 'labels', labels, 'claims', 'watches: claimed_units', 'claimed', 'watches: claimed_units')
end
-- The same for scorers that know of no mixtures, by all the counters that they number claims with.
if mixture_growth ~= '' then
  local locked = 'mixes: claimed_mixtures'
  redis.call('HSET', counts, 'mixture_growth', mixture_growth, 'claims', locked, 'claimed', locked,
    'claimed_units', locked)
end
-- The same for scorers that know of no routes.
if route_growth ~= '' then
  local locked = 'routes: claimed_routes'
  redis.call('HSET', counts, 'route_growth', route_growth, 'claims', locked, 'claimed', locked,
    'claimed_units', locked, 'claimed_mixtures', locked)
end
-- A service that knows of no routes left these when it deleted an experiment of this name.
redis.call('UNLINK', contexts, routes)
for i, name in ipairs(names) do
  enrol(i - 1, name)
end
return {'ok', 1}
