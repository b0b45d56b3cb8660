-- uses: units
-- keys: snapshot

-- The chunks of a snapshot, or of an upload, of a unit.

local function chunk_key(unit, unique, i)
  return snapshot .. ':' .. unit .. ':' .. unique .. ':' .. i
end

local function drop_chunks(unit, unique, chunks)
  for i = 0, unique and chunks - 1 or -1 do
    redis.call('UNLINK', chunk_key(unit, unique, i))
  end
end

-- Removes the chunks of what a unit has under this name: its `snapshot`, or `upload`.
local function drop(unit, name)
  drop_chunks(unit, fact(unit, name), fact(unit, name .. '_chunks'))
end

local function drop_upload(unit)
  drop(unit, 'upload')
  forget_facts(unit, 'upload', 'upload_chunks')
end
