-- ARGV: seconds, numbers of picks. Answers those that were still leased, with a deadline no sooner than before.
if tonumber(ARGV[1]) > tonumber(redis.call('HGET', counts, 'lease') or 0) then
  redis.call('HSET', counts, 'lease', ARGV[1])
end
local answer = {'ok'}
local at = now()
for i = 2, #ARGV do
  local deadline = redis.call('ZSCORE', leases, ARGV[i])
  if deadline and tonumber(deadline) > at then
    redis.call('ZADD', leases, 'GT', string.format('%.6f', at + ARGV[1]), ARGV[i])
    answer[#answer + 1] = tonumber(ARGV[i])
  end
end
return answer
