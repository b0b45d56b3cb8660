-- uses: prelude
-- keys: share_keys
-- args: id record seconds max

-- Stores a share of the experiment, `max` at most. All of them are gone when the last one has expired.
if redis.call('HEXISTS', share_keys, id) == 0 and redis.call('HLEN', share_keys) >= tonumber(max) then
  return {'full', 'shares: expected at most ' .. max .. ' of an experiment: revoke some'}
end
redis.call('HSET', share_keys, id, record)
redis.call('EXPIRE', share_keys, math.max(redis.call('TTL', share_keys), math.ceil(seconds)))
return {'ok'}
