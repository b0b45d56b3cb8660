-- keys: snapshot

-- The chunks of a snapshot. An entry of `snapshots` or `uploads` begins with "<unique> <chunks>".

local function chunk_key(unit, unique, i)
  return snapshot .. ':' .. unit .. ':' .. unique .. ':' .. i
end

local function drop(unit, entry)
  if entry then
    local unique, chunks = entry:match('^(%S+) (%d+)')
    for i = 0, chunks - 1 do
      redis.call('UNLINK', chunk_key(unit, unique, i))
    end
  end
end
