-- uses: prelude deriving
-- keys: modes
-- args: generator seq payload token chain kernels channel experiment

-- Publishes a generator's modes at log position `seq`, whose chained digest is `chain`. Answers 1 if these are now the
-- modes, 0 if newer ones exist.
if not holds(generator, token) then
  return superseded
end
local standing = redis.call('HGET', modes, generator)
if standing and tonumber(standing:match('^%d+')) > tonumber(seq) then
  return {'ok', 0}
elseif is_void(generator, seq) or not (follows(generator, seq, chain) and fits(kernels)) then
  return outdated
end
redis.call('HSET', modes, generator, seq .. ' ' .. payload)
redis.call('PUBLISH', channel, experiment .. ' ' .. generator .. ' ' .. seq)
return {'ok', 1}
