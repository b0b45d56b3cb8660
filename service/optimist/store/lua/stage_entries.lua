-- KEYS: a log on its way. ARGV: seconds it lasts, 1 if entries have records; seq, pick, rows, digest, bytes so far,
--       body and record of each entry. Those that stand there already are passed over.
local staged, seconds, records = KEYS[1], ARGV[1], ARGV[2] == '1'
local last = redis.call('XREVRANGE', staged, '+', '-', 'COUNT', 1)[1]
local seen = last and tonumber(last[1]:match('^%d+')) or 0
for at = 3, #ARGV, 7 do
  local seq, pick, rows, digest, bytes, body, record = unpack(ARGV, at, at + 6)
  if tonumber(seq) > seen then
    local entry = {'pick', pick, 'rows', rows, 'digest', digest, 'bytes', bytes, 'body', body}
    if records then
      entry[11], entry[12] = 'record', record
    end
    redis.call('XADD', staged, seq .. '-0', unpack(entry))
  end
end
redis.call('EXPIRE', staged, seconds)
return {'ok'}
