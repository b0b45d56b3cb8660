-- uses: prelude deriving
-- keys: modes
-- args: generator label seq payload token chain kernels channel experiment

-- Publishes a generator's modes at log position `seq`, whose chained digest is `chain`. Answers 1 if these are now the
-- modes, 0 if newer ones exist.
local unit = unit_of(generator, label)
if not holds(unit, token) then
  return superseded
end
local standing = redis.call('HGET', modes, unit)
if standing and tonumber(standing:match('^%d+')) > tonumber(seq) then
  return {'ok', 0}
elseif is_void(generator, seq) or not (follows(generator, seq, chain) and fits(kernels, label)) then
  return outdated
end
redis.call('HSET', modes, unit, seq .. ' ' .. payload)
if label == '' then
  redis.call('PUBLISH', channel, experiment .. ' ' .. generator .. ' ' .. seq)
end
return {'ok', 1}
