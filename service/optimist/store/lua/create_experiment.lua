-- ARGV: config, growth, generator names in order. Answers 1 if created, 0 if it stood there already.
local standing = redis.call('GET', config)
if standing == ARGV[1] then
  return {'ok', 0}
elseif standing then
  return {'conflict', 'an experiment of this name exists with another configuration'}
end

redis.call('SET', config, ARGV[1])
redis.call('HSET', counts, 'growth', ARGV[2], 'rounds', 0, 'told', 0, 'low', 0)
for i = 3, #ARGV do
  local g = i - 3
  redis.call('HSET', generators, g, ARGV[i])
  redis.call('HSET', counts, g .. ':samples', 0, g .. ':batches', 0, g .. ':seq', 0,
    g .. ':due_samples', 0, g .. ':due_seq', 0, g .. ':handed', 0)
end
return {'ok', 1}
