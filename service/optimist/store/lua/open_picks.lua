-- uses: opening

-- Opens picks, as opening.lua describes it.
return open('')
