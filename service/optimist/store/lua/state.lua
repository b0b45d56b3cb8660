-- uses: prelude reading
-- args: remembered

-- Answers the state of the experiment. remembered: how many expired picks are remembered.
return {'ok', read_state(remembered)}
