-- uses: prelude
-- keys: counts leases picks
-- args: seconds numbers*

-- Lets picks be leased for `seconds` from now, unless they are for longer. Answers the numbers that were still leased.
if tonumber(seconds) > tonumber(redis.call('HGET', counts, 'lease') or 0) then
  redis.call('HSET', counts, 'lease', seconds)
end
local answer = {'ok'}
local at = now()
for _, number in ipairs(numbers) do
  local deadline = redis.call('ZSCORE', leases, number)
  if deadline and tonumber(deadline) > at then
    redis.call('ZADD', leases, 'GT', string.format('%.6f', at + seconds), number)
    answer[#answer + 1] = tonumber(number)
    touch(redis.call('HGET', picks, number):match('^%d+'))
  end
end
return answer
