-- uses: prelude
-- keys: generators states returned
-- args: generator state

-- Sets the state of a generator. A generator without an entry in `states` is active.
if redis.call('HEXISTS', generators, generator) == 0 then
  return {'not-found', 'there is no such generator'}
end
local standing = redis.call('HGET', states, generator) or 'active'
if standing == state then
  return {'ok'}
elseif standing == 'retired' then
  return {'conflict', 'a retired generator stays retired'}
elseif standing == 'active' and redis.call('HLEN', generators) - redis.call('HLEN', states) == 1 then
  return {'conflict', 'no active generator would remain'}
end

if state == 'active' then
  redis.call('HDEL', states, generator)
  changed()
  return {'ok'}
end
redis.call('HSET', states, generator, state)
changed()
if state == 'retired' then
  redis.call('HDEL', returned, generator)
end
return {'ok'}
