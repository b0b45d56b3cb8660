-- ARGV: pick, reason.
local number, reason = unpack(ARGV)
if redis.call('HEXISTS', picks, number) == 0 then
  return recall(number, '')
end
release(number)
hand_back(number)
redis.call('HDEL', picks, number)
redis.call('HSET', settled, number, '\t' .. reason)
return {'ok'}
