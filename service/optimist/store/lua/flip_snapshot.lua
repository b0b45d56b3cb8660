-- uses: prelude deriving chunks
-- keys: units counts log
-- args: generator label token unique chunks seq digest chain kernels

-- Makes an upload the snapshot of the log up to `seq`, then trims the log up to the oldest snapshot of all metrics.
-- digest: SHA-256 of the snapshot. chain: chained digest of the log at `seq`. Answers 1 if this is now the snapshot, 0 if
-- one as new or newer exists.
local unit = unit_of(generator, label)
if not holds(unit, token) then
  return superseded
end
local standing, size = fact(unit, 'snapshot'), fact(unit, 'snapshot_chunks')
if standing == unique then
  return {'ok', 1}
elseif standing and snapshot_seq(unit) >= tonumber(seq) then
  drop_chunks(unit, unique, chunks)
  forget_facts(unit, 'upload', 'upload_chunks')
  return {'ok', 0}
end
if tonumber(seq) > tonumber(redis.call('HGET', counts, generator .. ':seq')) then
  return {'conflict', 'the log does not reach position ' .. seq}
elseif is_void(generator, seq) or not (follows(generator, seq, chain) and fits(kernels, label)) then
  return outdated
end
for i = 0, chunks - 1 do
  if redis.call('EXISTS', chunk_key(unit, unique, i)) == 0 then
    return {'not-found', 'the upload took too long and has expired'}
  end
end

-- PERSIST is the first write, because Redis accepts it when memory is full, and this script frees memory.
for i = 0, chunks - 1 do
  redis.call('PERSIST', chunk_key(unit, unique, i))
end
redis.call('HSET', units, unit .. ':snapshot', unique, unit .. ':snapshot_chunks', chunks, unit .. ':snapshot_seq', seq,
  unit .. ':snapshot_digest', digest, unit .. ':snapshot_chain', chain)
forget_facts(unit, 'upload', 'upload_chunks')
drop_chunks(unit, standing, size)

note_later(generator)
local entry = redis.call('XRANGE', log .. ':' .. generator, seq .. '-0', seq .. '-0')[1]
local fields = entry and entry[2] or {}
for i = 1, #fields, 2 do
  if fields[i] == 'bytes' then
    redis.call('HSET', units, unit .. ':snapshot_bytes', fields[i + 1])
  end
end
if redis.call('HGET', counts, 'keep_log') ~= '1' then
  local oldest = tonumber(seq)
  for _, other in ipairs(all_labels()) do
    oldest = math.min(oldest, snapshot_seq(unit_of(generator, other)))
  end
  redis.call('XTRIM', log .. ':' .. generator, 'MINID', '=', string.format('%d-0', oldest + 1))
end
return {'ok', 1}
