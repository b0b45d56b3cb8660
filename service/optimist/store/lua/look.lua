-- Frees the leases that ran out, then answers with everything a decision is made from.
-- A late pick stays in `picks`, so that its batch is still accepted.
for _, number in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now())) do
  release(number)
  hand_back(number)
end

local open = {}
local leased = redis.call('ZRANGE', leases, 0, -1, 'WITHSCORES')
for i = 1, #leased, 2 do
  open[#open + 1] = {leased[i], leased[i + 1], redis.call('HGET', picks, leased[i])}
end
return {
  'ok',
  redis.call('HGETALL', counts),
  redis.call('HGETALL', generators),
  redis.call('HGETALL', estimates),
  redis.call('HGETALL', damaged),
  redis.call('HGETALL', returned),
  redis.call('GET', decision),
  open,
}
