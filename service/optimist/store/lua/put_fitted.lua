-- uses: prelude deriving
-- keys: fitted units
-- args: generator label payload token kernels logs*(generator seq chain)

-- Stores the kernels of a metric that were fixed by the first samples, once. kernels: SHA-1 of `payload`. logs: the last
-- batch of each log that was read for it. Answers what is stored: the first payload.
if not holds(unit_of(generator, label), token) then
  return superseded
end
for _, read in ipairs(logs) do
  if not follows(read.generator, read.seq, read.chain) then
    return outdated
  end
end
local key = fitted .. ':' .. label
if redis.call('SETNX', key, payload) == 1 then
  local from = {}
  for i, read in ipairs(logs) do
    from[i] = read.generator .. ' ' .. read.seq
  end
  redis.call('HSET', units, label .. ':fitted', kernels, label .. ':fitted_from', table.concat(from, ' '))
end
return {'ok', redis.call('GET', key)}
