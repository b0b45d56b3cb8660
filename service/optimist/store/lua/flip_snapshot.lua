-- uses: prelude deriving chunks
-- keys: snapshots uploads counts log
-- args: generator token unique chunks seq digest chain kernels

-- Makes an upload the snapshot of the log up to `seq`, then trims the log up to there. digest: SHA-256 of the snapshot.
-- chain: chained digest of the log at `seq`. Answers 1 if this is now the snapshot, 0 if one as new or newer exists.
if not holds(generator, token) then
  return superseded
end
local standing = redis.call('HGET', snapshots, generator)
if standing and standing:match('^%S+') == unique then
  return {'ok', 1}
end
if standing and tonumber(standing:match('^%S+ %d+ (%d+)')) >= tonumber(seq) then
  drop(generator, unique .. ' ' .. chunks)
  redis.call('HDEL', uploads, generator)
  return {'ok', 0}
end
if tonumber(seq) > tonumber(redis.call('HGET', counts, generator .. ':seq')) then
  return {'conflict', 'the log does not reach position ' .. seq}
elseif is_void(generator, seq) or not (follows(generator, seq, chain) and fits(kernels)) then
  return outdated
end
for i = 0, chunks - 1 do
  if redis.call('EXISTS', chunk_key(generator, unique, i)) == 0 then
    return {'not-found', 'the upload took too long and has expired'}
  end
end

-- PERSIST is the first write, because Redis accepts it when memory is full, and this script frees memory.
for i = 0, chunks - 1 do
  redis.call('PERSIST', chunk_key(generator, unique, i))
end
redis.call('HSET', snapshots, generator, table.concat({unique, chunks, seq, digest}, ' '))
redis.call('HDEL', uploads, generator)
redis.call('HSET', counts, 'snapshot_chain_' .. generator, seq .. ' ' .. chain)
drop(generator, standing)

local entry = redis.call('XRANGE', log .. ':' .. generator, seq .. '-0', seq .. '-0')[1]
local fields = entry and entry[2] or {}
for i = 1, #fields, 2 do
  if fields[i] == 'bytes' then
    redis.call('HSET', counts, generator .. ':snapshot_bytes', fields[i + 1])
  end
end
if redis.call('HGET', counts, 'keep_log') ~= '1' then
  redis.call('XTRIM', log .. ':' .. generator, 'MINID', '=', string.format('%d-0', seq + 1))
end
return {'ok', 1}
