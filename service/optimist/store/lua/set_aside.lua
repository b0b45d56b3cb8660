-- ARGV: generator, seq, reason, token, how many are named, chained digest of the log at seq. A scorer goes through a log in order, and after a takeover
-- through parts of it again: those up to `aside_seq` are counted already.
local g, seq, reason, token, limit, chain = unpack(ARGV)
if not holds(g, token) then
  return superseded
elseif not follows(g, seq, chain) then
  return outdated
end
local name = g .. ':' .. seq
if redis.call('HLEN', aside) < tonumber(limit) then
  redis.call('HSETNX', aside, name, reason)
end
if tonumber(seq) > tonumber(redis.call('HGET', counts, g .. ':aside_seq')) then
  redis.call('HSET', counts, g .. ':aside_seq', seq)
  redis.call('HINCRBY', counts, g .. ':aside', 1)
end
return {'ok'}
