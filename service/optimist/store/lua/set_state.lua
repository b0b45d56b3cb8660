-- ARGV: generator, state. A generator without an entry in `states` is active.
local g, state = unpack(ARGV)
if redis.call('HEXISTS', generators, g) == 0 then
  return {'not-found', 'there is no such generator'}
end
local standing = redis.call('HGET', states, g) or 'active'
if standing == state then
  return {'ok'}
elseif standing == 'retired' then
  return {'conflict', 'a retired generator stays retired'}
elseif standing == 'active' and redis.call('HLEN', generators) - redis.call('HLEN', states) == 1 then
  return {'conflict', 'no active generator would remain'}
end

if state == 'active' then
  redis.call('HDEL', states, g)
  changed()
  return {'ok'}
end
redis.call('HSET', states, g, state)
changed()
if state == 'retired' then
  local slices = redis.call('HGETALL', returned)
  for i = 1, #slices, 2 do
    if slices[i + 1]:match('^%d+') == g then
      redis.call('HDEL', returned, slices[i])
    end
  end
end
return {'ok'}
