-- KEYS: a log on its way. ARGV: seconds it lasts, 1 if entries have records; seq, pick, rows, digest, chained digest,
--       bytes so far, body and record of each entry. Those that stand there already are passed over.
local staged, seconds, records = KEYS[1], ARGV[1], ARGV[2] == '1'
local last = redis.call('XREVRANGE', staged, '+', '-', 'COUNT', 1)[1]
local seen = last and tonumber(last[1]:match('^%d+')) or 0
for at = 3, #ARGV, 8 do
  local seq, pick, rows, digest, chain, bytes, body, record = unpack(ARGV, at, at + 7)
  if tonumber(seq) > seen then
    local entry = {'pick', pick, 'rows', rows, 'digest', digest, 'chain', chain, 'bytes', bytes, 'body', body}
    if records then
      entry[13], entry[14] = 'record', record
    end
    redis.call('XADD', staged, seq .. '-0', unpack(entry))
  end
end
redis.call('EXPIRE', staged, seconds)
return {'ok'}
