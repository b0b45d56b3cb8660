-- other keys: head ...

-- Answers the head of an experiment whose tables Python changes (commit.lua), the time, and the hashes of the other keys, all
-- of one moment.
local seq, chain = unpack(redis.call('HMGET', head, 'seq', 'chain'))
local time, hashes = redis.call('TIME'), {}
for i = 2, #KEYS do
  hashes[i - 1] = redis.call('HGETALL', KEYS[i])
end
return {'ok', seq or '0', chain or '', string.format('%.6f', time[1] + time[2] / 1e6), hashes}
