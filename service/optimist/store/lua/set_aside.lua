-- uses: prelude deriving
-- keys: aside counts
-- args: generator label seq reason token chain most_named

-- Records that the batch at log position `seq` cannot be read. The first `most_named` are named, the others are
-- counted. Scorers read a log in order, once for each metric, and after a takeover parts of it again: batches up to
-- `aside_seq` are counted already.
if not holds(unit_of(generator, label), token) then
  return superseded
elseif not follows(generator, seq, chain) then
  return outdated
end
local name = generator .. ':' .. seq
if redis.call('HLEN', aside) < tonumber(most_named) then
  redis.call('HSETNX', aside, name, reason)
end
if tonumber(seq) > tonumber(redis.call('HGET', counts, generator .. ':aside_seq')) then
  redis.call('HSET', counts, generator .. ':aside_seq', seq)
  redis.call('HINCRBY', counts, generator .. ':aside', 1)
end
return {'ok'}
