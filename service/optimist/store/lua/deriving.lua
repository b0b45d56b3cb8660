-- Stands before the scripts that store what was derived from a log, below the prelude.

local outdated = {'superseded', 'Redis has lost batches, or kernels, that this was made of'}

-- Whether a generator's log has the batch of this chained digest at this position; '' where the log has no chain, as one
-- of an older version. What was derived from batches that Redis has lost since must not be stored.
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

-- Whether these are the kernels that the first samples have fixed, by the SHA-1 of what `put_fitted` was given; '' where
-- nothing had to be fixed. An older version noted none.
local function fits(kernels)
  local standing = redis.call('HGET', counts, 'fitted')
  return kernels == '' or standing == kernels or not standing and redis.call('EXISTS', fitted) == 1
end
