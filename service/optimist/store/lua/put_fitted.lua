-- uses: prelude deriving
-- keys: fitted counts
-- args: generator payload token kernels logs*(generator seq chain)

-- Stores the kernels that were fixed by the first samples, once. kernels: SHA-1 of `payload`. logs: the last batch of
-- each log that was read for it. Answers what is stored: the first payload.
if not holds(generator, token) then
  return superseded
end
for _, read in ipairs(logs) do
  if not follows(read.generator, read.seq, read.chain) then
    return outdated
  end
end
if redis.call('SETNX', fitted, payload) == 1 then
  local from = {}
  for i, read in ipairs(logs) do
    from[i] = read.generator .. ' ' .. read.seq
  end
  redis.call('HSET', counts, 'fitted', kernels, 'fitted_from', table.concat(from, ' '))
end
return {'ok', redis.call('GET', fitted)}
