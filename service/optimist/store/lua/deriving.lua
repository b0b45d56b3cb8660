-- uses: units
-- keys: counts log

-- What is derived from a log is stored only if the log still holds the batches that it was derived from.

local outdated = {'superseded', 'Redis has lost batches, or kernels, that this was made of'}

-- Whether a generator's log has the chained digest `chain` at position `seq`. True for a `chain` of '': that of
-- an imported snapshot is not known.
local function follows(g, seq, chain)
  if chain == '' then
    return true
  end
  local last, standing = unpack(redis.call('HMGET', counts, g .. ':seq', 'chain_' .. g))
  if tonumber(seq) > tonumber(last) then
    return false
  elseif tonumber(seq) == tonumber(last) then
    return standing == seq .. ' ' .. chain
  end
  local entry = redis.call('XRANGE', log .. ':' .. g, seq .. '-0', seq .. '-0')[1]
  for i = 1, entry and #entry[2] or 0, 2 do
    if entry[2][i] == 'chain' then
      return entry[2][i + 1] == chain
    end
  end
  return false
end

-- Whether something made of the log up to `seq` is void, because a batch was retracted since.
local function is_void(g, seq)
  return tonumber(seq) < tonumber(redis.call('HGET', counts, g .. ':voids') or 0)
end

-- Whether `kernels` is the SHA-1 of the kernels that `put_fitted` stored for this metric. True for '', where nothing had
-- to be fixed.
local function fits(kernels, label)
  return kernels == '' or fact(label, 'fitted') == kernels
end
