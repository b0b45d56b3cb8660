-- uses: prelude deriving
-- keys: quarantined counts
-- args: generator label seq reason token chain max_named

-- Records that the batch at log position `seq` cannot be read. The first `max_named` are named, the others are
-- counted. Scorers read a log in order, once for each metric, and after a takeover parts of it again: batches up to
-- `quarantined_seq` are counted already.
if not holds(unit_of(generator, label), token) then
  return superseded
elseif not follows(generator, seq, chain) then
  return outdated
end
local name = generator .. ':' .. seq
if redis.call('HLEN', quarantined) < tonumber(max_named) then
  redis.call('HSETNX', quarantined, name, reason)
end
if tonumber(seq) > tonumber(redis.call('HGET', counts, generator .. ':quarantined_seq')) then
  redis.call('HSET', counts, generator .. ':quarantined_seq', seq)
  redis.call('HINCRBY', counts, generator .. ':quarantined', 1)
end
touch()
return {'ok'}
