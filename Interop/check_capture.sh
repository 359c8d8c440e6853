#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_capture.sh FILE…: has tshark judge HCI captures (btsnoop). Nothing may be malformed, no expert item be a warning or
# worse, no ATT opcode be unknown, and no L2CAP fragment be but of a PDU longer than an ACL packet. There must be ATT
# requests in the files taken together, so that an empty capture is no success.
set -u
[ $# -gt 0 ] || { echo "usage: Interop/check_capture.sh FILE…" >&2; exit 2; }

# One line a frame, tabs between the fields; of a field that a frame has several times all, with commas. tshark puts the
# pieces of an L2CAP PDU together: its length is a field of the frame that completes it, and of no piece before.
frames() {
  tshark -r "$1" -T fields -e frame.number -e _ws.malformed -e _ws.expert.severity -e btatt.opcode -e bthci_acl.pb_flag \
    -e bthci_acl.length -e btl2cap.length -e _ws.col.Info -e hci_h4.direction -e bthci_acl.chandle 2>/dev/null
}

judge='
BEGIN {
  FS = "\t"
  # Vol 3 Part F 3.4.8: all opcodes, and those of requests.
  split("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 22 23 24 25 27 29 30 32 33 35 82 210", list, " ")
  for (i in list) known[list[i]] = 1
  split("2 4 6 8 10 12 14 16 18 22 24 32", list, " ")
  for (i in list) request[list[i]] = 1
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
  if ($2 != "") wrong("malformed: " $8)
  count = split($3, severities, ",")
  # 0x600000 is a warning, 0x800000 an error.
  for (i = 1; i <= count; i++) if (number(severities[i]) >= 6291456) { wrong("expert item: " $8); break }
  count = split($4, opcodes, ",")
  for (i = 1; i <= count; i++) {
    opcode = number(opcodes[i])
    if (!(opcode in known)) wrong("unknown ATT opcode " opcodes[i])
    if (opcode in request) requests++
  }
  if ($8 ~ /Fragment/) wrong("a fragment: " $8)
  if ($6 == "") next
  way = $9 "," $10
  if ($6 + 0 > longest[$9]) longest[$9] = $6 + 0
  if (number($5) != 1) {
    if (way in open) wrong("it begins a PDU before that of frame " open[way] " has ended")
    delete open[way]
    if ($7 == "") { open[way] = $1; piece[way] = $6 + 0; direction[way] = $9 }
  } else if ($7 != "") {
    ends++; where[ends] = $1; size[ends] = $7; through[ends] = $9
    delete open[way]
  }
}
END {
  # With its header of four octets a PDU that came in pieces must be longer than the longest ACL packet of its direction.
  for (i = 1; i <= ends; i++)
    if (size[i] + 4 <= longest[through[i]]) { $1 = where[i]; wrong("a PDU of " size[i] " octets in needless pieces") }
  # What a lost link left open has filled its packet.
  for (way in open) if (piece[way] < longest[direction[way]]) { $1 = open[way]; wrong("a PDU without its end") }
  if (!frames) { print FILENAME_SHOWN ": tshark finds no packet"; bad = 1 }
  print FILENAME_SHOWN ": " frames + 0 " packets, " requests + 0 " ATT requests"
  exit bad
}'

total=0
bad=0
for file in "$@"; do
  verdict=$(frames "$file" | awk -v FILENAME_SHOWN="$(basename "$file")" "$judge") || bad=1
  printf '%s\n' "$verdict"
  total=$((total + $(printf '%s\n' "$verdict" | tail -n 1 | sed -nE 's/.*, ([0-9]+) ATT requests$/\1/p')))
done
[ "$total" -gt 0 ] || { echo "no ATT request in any capture"; bad=1; }
echo "captures: $# files, $total ATT requests, $([ "$bad" -eq 0 ] && echo 'nothing wrong' || echo 'see above')"
exit "$bad"
