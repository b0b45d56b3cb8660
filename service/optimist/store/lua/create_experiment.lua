-- ARGV: config, growth, instance, whether to keep the log, generator names in order.
-- Answers 1 if created, 0 if it stood there already.
local standing = redis.call('GET', config)
if standing == ARGV[1] then
  return {'ok', 0}
elseif standing then
  return {'conflict', 'an experiment of this name exists with another configuration'}
end

redis.call('SET', config, ARGV[1])
redis.call('HSET', counts, 'growth', ARGV[2], 'instance', ARGV[3], 'keep_log', ARGV[4],
  'rounds', 0, 'told', 0, 'claims', 0)
for i = 5, #ARGV do
  enrol(i - 5, ARGV[i])
end
return {'ok', 1}
