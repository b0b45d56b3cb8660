-- other keys: scorers
-- args: owner seconds

-- Notes that a scorer is there for `seconds` more, and forgets those that are not; a time further off than that was noted
-- before the server's clock was set back. Answers the owners that are there.
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local ends = string.format('%.6f', now + seconds)
redis.call('ZREMRANGEBYSCORE', scorers, '-inf', string.format('%.6f', now))
redis.call('ZREMRANGEBYSCORE', scorers, '(' .. ends, '+inf')
redis.call('ZADD', scorers, ends, owner)
return {'ok', unpack(redis.call('ZRANGE', scorers, 0, -1))}
