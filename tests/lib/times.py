"""The seconds of each test in reports of ctest, longest first: what tests/times.txt holds."""

import sys
import xml.etree.ElementTree as tree

SHORT_S = 2  # below that it does not matter when a test begins


def main():
    seconds = {}
    for path in sys.argv[1:]:
        for case in tree.parse(path).getroot().iter("testcase"):
            name = case.get("name")
            seconds[name] = max(seconds.get(name, 0), round(float(case.get("time"))))
    for name, took in sorted(seconds.items(), key=lambda item: (-item[1], item[0])):
        if took >= SHORT_S:
            print(name, took)


main()
