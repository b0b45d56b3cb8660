-- KEYS: index of names. ARGV: seconds, then names, each before the time that it was seen to have its place from.
-- Those that have it from the same time still, and for so many seconds, lose it; and those that have it from a time so
-- far ahead, as the clock was set back.
local time = redis.call('TIME')
local latest = tonumber(time[1]) + tonumber(time[2]) / 1e6 - tonumber(ARGV[1])
for i = 2, #ARGV, 2 do
  local since = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or nil)
  if since and since == tonumber(ARGV[i + 1]) and (since <= latest or since > latest + 2 * ARGV[1]) then
    redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return {'ok'}
