# SPDX-License-Identifier: Apache-2.0
"""What the models are fed. Synthetic data is drawn once, on the device, and never crosses the bus again."""
