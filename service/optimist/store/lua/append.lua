-- ARGV: generator, idempotency key, digest, rows, body, channel, experiment, how many keys are remembered, seconds,
--       measures. Answers {answer, 1 if it was appended before, else 0, 0 and what is odd about it}.
local g, key, digest, rows, body, channel, experiment, limit, seconds, measures = unpack(ARGV)
-- A caller may use one key for a batch of each generator.
key = g .. '\t' .. key

local known = redis.call('HGET', appended, key)
if known then
  local before, answer = known:match('^([^\t]*)\t(.*)$')
  if before == digest then
    return {'ok', answer, 1}
  end
  return {'conflict', 'another batch was appended under this key'}
elseif redis.call('HEXISTS', generators, g) == 0 then
  return {'not-found', 'there is no such generator'}
end
local found, refusal = check(g, rows, measures, '')
if refusal then
  return refusal
end
local answer, _, suspicion = accept(g, '0', digest, rows, body, '', false, channel, experiment, found)
redis.call('HSET', appended, key, digest .. '\t' .. answer)
redis.call('ZADD', appended_at, now(), key)

-- Two at a time, so that no call pays for many.
local oldest = redis.call('ZRANGE', appended_at, 0, 1, 'WITHSCORES')
for i = 1, #oldest, 2 do
  if redis.call('ZCARD', appended_at) > tonumber(limit) or tonumber(oldest[i + 1]) < now() - seconds then
    redis.call('HDEL', appended, oldest[i])
    redis.call('ZREM', appended_at, oldest[i])
  end
end
return {'ok', answer, 0, 0, suspicion}
