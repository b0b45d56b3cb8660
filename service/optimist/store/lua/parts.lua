-- uses: deriving
-- args: parts*(generator seq samples chain)

-- What is made of the logs of several generators, by one metric. parts: of each generator in it the log position, the
-- samples up to there, and the chained digest of the log there. They are stored as "<generator>:<seq>:<samples>" with
-- commas between.

-- The parts as they are stored, and the samples of all.
local function read_parts()
  local total, texts = 0, {}
  for i, part in ipairs(parts) do
    total = total + part.samples
    texts[i] = part.generator .. ':' .. part.seq .. ':' .. part.samples
  end
  return table.concat(texts, ','), total
end

-- Whether what was made of `stored` parts knows more of a generator's log.
local function knows_more(stored)
  local before = {}
  for g, seq in stored:gmatch('(%d+):(%d+):%d+') do
    before[g] = tonumber(seq)
  end
  for _, part in ipairs(parts) do
    if (before[part.generator] or 0) > tonumber(part.seq) then
      return true
    end
  end
  return false
end

-- Whether a snapshot at this position was made of the same log, of which it may have taken the place.
local function stands_for(part, label)
  local unit = unit_of(part.generator, label)
  return fact(unit, 'snapshot_seq') == part.seq and fact(unit, 'snapshot_chain') == part.chain
end

-- Whether the logs still hold what the parts were made of, and all of it counts.
local function are_current(label)
  for _, part in ipairs(parts) do
    if is_void(part.generator, part.seq)
      or not (follows(part.generator, part.seq, part.chain) or stands_for(part, label)) then
      return false
    end
  end
  return true
end

-- A name that nothing else of the unit has.
local function new_name(total)
  return string.format('%d:%.6f', total, now())
end
