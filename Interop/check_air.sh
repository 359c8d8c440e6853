#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_air.sh FILE…: has tshark judge captures of the air (pcap, LE Link Layer). Nothing may be malformed, no CRC wrong and
# no expert item be a warning or worse, no ATT opcode unknown, no packet without a name. There must be connections in the
# files taken together, so that an empty capture is no success.
set -u
[ $# -gt 0 ] || { echo "usage: Interop/check_air.sh FILE…" >&2; exit 2; }

judge='
BEGIN {
  FS = "\t"
  # Vol 3 Part F 3.4.8.
  split("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 22 23 24 25 27 29 30 32 33 35 82 210", list, " ")
  for (i in list) known[list[i]] = 1
}
function number(text, value, i) {
  if (text !~ /^0x/) return text + 0
  value = 0
  for (i = 3; i <= length(text); i++) value = value * 16 + index("0123456789abcdef", tolower(substr(text, i, 1))) - 1
  return value
}
function wrong(text) { print FILENAME_SHOWN ": frame " $1 ": " text; bad = 1 }
{
  frames++
  if ($2 != "") wrong("malformed: " $5)
  count = split($3, severities, ",")
  # 0x600000 is a warning, 0x800000 an error.
  for (i = 1; i <= count; i++) if (number(severities[i]) >= 6291456) { wrong("expert item: " $5); break }
  count = split($4, opcodes, ",")
  for (i = 1; i <= count; i++) if (!(number(opcodes[i]) in known)) wrong("unknown ATT opcode " opcodes[i])
  if ($5 ~ /^(Unknown|Reserved)|(Sent|Rcvd) <unknown>/) wrong("no name for it: " $5)
  if ($5 ~ /CONNECT_IND|AUX_CONNECT_REQ/) connections++
}
END {
  if (!frames) { print FILENAME_SHOWN ": tshark finds no packet"; bad = 1 }
  print FILENAME_SHOWN ": " frames + 0 " packets, " connections + 0 " connections"
  exit bad
}'

total=0
bad=0
for file in "$@"; do
  # A lost link leaves what both ends repeat: notes, no warnings.
  verdict=$(tshark -r "$file" -T fields -e frame.number -e _ws.malformed -e _ws.expert.severity -e btatt.opcode \
    -e _ws.col.Info 2>/dev/null | awk -v FILENAME_SHOWN="$(basename "$file")" "$judge") || bad=1
  printf '%s\n' "$verdict"
  total=$((total + $(printf '%s\n' "$verdict" | tail -n 1 | sed -nE 's/.*, ([0-9]+) connections$/\1/p')))
done
[ "$total" -gt 0 ] || { echo "no connection in any capture"; bad=1; }
echo "air: $# files, $total connections, $([ "$bad" -eq 0 ] && echo 'nothing wrong' || echo 'see above')"
exit "$bad"
