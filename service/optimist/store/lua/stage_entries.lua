-- other keys: staged
-- args: seconds keep_log entries*(seq pick rows digest chain bytes body record is_retraction is_answer prompts indices counted context seconds)

-- Adds entries to a log that is being imported, under a key that expires after `seconds`. Entries that it has already
-- are skipped. keep_log: '1' if entries have records.
local last = redis.call('XREVRANGE', staged, '+', '-', 'COUNT', 1)[1]
local seen = last and tonumber(last[1]:match('^%d+')) or 0
for _, new in ipairs(entries) do
  if tonumber(new.seq) > seen then
    local entry = {'pick', new.pick, 'rows', new.rows, 'digest', new.digest, 'chain', new.chain, 'bytes', new.bytes,
                   'body', new.body}
    if new.is_retraction == '1' then
      entry = {'retracts', 1, 'digest', new.digest, 'chain', new.chain, 'bytes', new.bytes}
    elseif new.is_answer == '1' then
      entry = {'answers', 1, 'digest', new.digest, 'chain', new.chain, 'bytes', new.bytes, 'body', new.body}
    elseif keep_log == '1' then
      entry[13], entry[14] = 'record', new.record
    end
    if new.prompts ~= '' then
      entry[#entry + 1] = 'prompts'
      entry[#entry + 1] = new.prompts
    end
    if new.indices ~= '' then
      entry[#entry + 1] = 'indices'
      entry[#entry + 1] = new.indices
    end
    if new.counted ~= '' then
      entry[#entry + 1] = 'counted'
      entry[#entry + 1] = new.counted
    end
    if new.context ~= '' then
      entry[#entry + 1] = 'context'
      entry[#entry + 1] = new.context
    end
    if new.seconds ~= '' then
      entry[#entry + 1] = 'seconds'
      entry[#entry + 1] = new.seconds
    end
    redis.call('XADD', staged, new.seq .. '-0', unpack(entry))
  end
end
redis.call('EXPIRE', staged, seconds)
return {'ok'}
