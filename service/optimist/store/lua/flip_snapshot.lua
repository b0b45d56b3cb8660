-- ARGV: generator, token, unique, number of chunks, seq, digest, chained digest of the log at seq, kernels that were fixed.
-- Answers 1 if this is now the snapshot, 0 if one as new or newer stands.
local g, token, unique, chunks, seq, digest, chain, kernels = unpack(ARGV)
if not holds(g, token) then
  return superseded
end
local standing = redis.call('HGET', snapshots, g)
if standing and standing:match('^%S+') == unique then
  return {'ok', 1}
end
if standing and tonumber(standing:match('^%S+ %d+ (%d+)')) >= tonumber(seq) then
  drop(g, unique .. ' ' .. chunks)
  redis.call('HDEL', uploads, g)
  return {'ok', 0}
end
if tonumber(seq) > tonumber(redis.call('HGET', counts, g .. ':seq')) then
  return {'conflict', 'the log does not reach position ' .. seq}
elseif not (follows(g, seq, chain) and fits(kernels)) then
  return outdated
end
for i = 0, chunks - 1 do
  if redis.call('EXISTS', chunk_key(g, unique, i)) == 0 then
    return {'not-found', 'the upload took too long and has expired'}
  end
end

-- What makes room is not refused when memory is full: PERSIST, unlike HSET, may be the first write then.
for i = 0, chunks - 1 do
  redis.call('PERSIST', chunk_key(g, unique, i))
end
redis.call('HSET', snapshots, g, table.concat({unique, chunks, seq, digest}, ' '))
redis.call('HDEL', uploads, g)
redis.call('HSET', counts, 'snapshot_chain_' .. g, seq .. ' ' .. chain)
drop(g, standing)

local entry = redis.call('XRANGE', log .. ':' .. g, seq .. '-0', seq .. '-0')[1]
local fields = entry and entry[2] or {}
for i = 1, #fields, 2 do
  if fields[i] == 'bytes' then
    redis.call('HSET', counts, g .. ':snapshot_bytes', fields[i + 1])
  end
end
if redis.call('HGET', counts, 'keep_log') ~= '1' then
  redis.call('XTRIM', log .. ':' .. g, 'MINID', '=', string.format('%d-0', seq + 1))
end
return {'ok', 1}
