"""Writes scikit-learn's handwritten digits as images to try `train.py` with: each in one colour, FOLDER/COLOR/DIGIT/NUMBER.png.

pip install scikit-learn pillow
python examples/colored_digits.py FOLDER
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", type=Path)
folder = parser.parse_args().folder

COLORS = {"red": (1, 0, 0), "blue": (0, 0, 1), "yellow": (1, 1, 0), "green": (0, 1, 0)}

generator = np.random.default_rng(0)
for number, (gray, digit) in enumerate(zip(*load_digits(return_X_y=True))):
    color = list(COLORS)[number % len(COLORS)]
    shade = np.clip(np.array(COLORS[color]) + 0.2 * generator.normal(size=3), 0, 1)
    pixels = (255 / 16 * gray.reshape(8, 8, 1) * shade).round().astype(np.uint8)
    path = folder / color / str(digit) / f"{number:04}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).resize((32, 32), Image.Resampling.BICUBIC).save(path)
