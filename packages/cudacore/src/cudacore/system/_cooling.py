# SPDX-License-Identifier: Apache-2.0
"""Temperatures, coolers and fans of a device."""

from __future__ import annotations

from dataclasses import dataclass

from cudacore.system._items import Items
from cudacore.system._nvml import Handle, Numbers, as_name, as_names, as_number, call, pair_of_int
from cudacore.system.typing import (
    CoolerControl,
    CoolerTarget,
    FanControlPolicy,
    TemperatureThresholds,
    ThermalController,
    ThermalTarget,
)

_COOLER_CONTROLS: Numbers[CoolerControl] = Numbers(CoolerControl)
_COOLER_TARGETS: Numbers[CoolerTarget] = Numbers(CoolerTarget)
_FAN_POLICIES: Numbers[FanControlPolicy] = Numbers(FanControlPolicy, TEMPERATURE_CONTROLLED="TEMPERATURE_CONTINUOUS_SW")
_THRESHOLDS: Numbers[TemperatureThresholds] = Numbers(TemperatureThresholds)
_CONTROLLERS: Numbers[ThermalController] = Numbers(ThermalController)
_TARGETS: Numbers[ThermalTarget] = Numbers(ThermalTarget)
_GPU_SENSOR = 0


class CoolerInfo:
    """The cooler of a device (nvmlDeviceGetCoolerInfo)."""

    __slots__ = ("signal_type", "target")
    signal_type: CoolerControl | None
    """CoolerControl or None: how the cooler is controlled; None if it cannot be controlled."""
    target: list[CoolerTarget]
    """list of CoolerTarget: the parts that the cooler cools."""

    def __init__(self, handle: Handle) -> None:
        found = call("device_get_cooler_info", handle)
        signal = int(found.signal_type)
        self.signal_type = next((name for name, number in _COOLER_CONTROLS.items() if number == signal), None)
        self.target = as_names(int(found.target), _COOLER_TARGETS)

    def __repr__(self) -> str:
        return f"CoolerInfo(signal_type={self.signal_type!r}, target={self.target!r})"


class FanInfo:
    """A fan of a device."""

    __slots__ = ("_fan", "_handle")

    def __init__(self, handle: Handle, fan: int) -> None:
        count = int(call("device_get_num_fans", handle))
        if not 0 <= fan < count:
            raise ValueError(f"fan must be from 0 to {count - 1}, not {fan}" if count else "the device has no fans")
        self._handle = handle
        self._fan = fan

    def __repr__(self) -> str:
        return f"<FanInfo {self._fan}>"

    @property
    def speed(self) -> int:
        """int: the intended speed, in percent of the highest (nvmlDeviceGetFanSpeed_v2). It can be more than 100.

        Setting the speed takes the fan from the driver's control (nvmlDeviceSetFanSpeed_v2). Watch the temperature from
        then on, and call :meth:`set_default_speed` afterwards.
        """
        return int(call("device_get_fan_speed_v2", self._handle, self._fan))

    @speed.setter
    def speed(self, speed: int) -> None:
        call("device_set_fan_speed_v2", self._handle, self._fan, speed)

    @property
    def speed_rpm(self) -> int:
        """int: the intended speed, in rotations per minute (nvmlDeviceGetFanSpeedRPM)."""
        return int(call("device_get_fan_speed_rpm", self._handle, self._fan))

    @property
    def target_speed(self) -> int:
        """int: the speed that the driver aims at, in percent of the highest (nvmlDeviceGetTargetFanSpeed)."""
        return int(call("device_get_target_fan_speed", self._handle, self._fan))

    @property
    def min_max_speed(self) -> tuple[int, int]:
        """tuple of int: the lowest and the highest speed that can be set, in percent (nvmlDeviceGetMinMaxFanSpeed)."""
        return pair_of_int(call("device_get_min_max_fan_speed", self._handle))

    @property
    def control_policy(self) -> FanControlPolicy:
        """FanControlPolicy: who controls the fan (nvmlDeviceGetFanControlPolicy_v2)."""
        number = int(call("device_get_fan_control_policy_v2", self._handle, self._fan))
        return as_name(number, _FAN_POLICIES, FanControlPolicy.MANUAL)

    def set_default_speed(self) -> None:
        """Return the fan to the driver's control (nvmlDeviceSetDefaultFanSpeed_v2)."""
        call("device_set_default_fan_speed_v2", self._handle, self._fan)


@dataclass(frozen=True, slots=True)
class ThermalSensor:
    """A thermal sensor."""

    controller: ThermalController
    """ThermalController: the chip that reads the sensor."""
    default_min_temp: int
    """int: the lowest temperature of the sensor's default range, in degrees Celsius."""
    default_max_temp: int
    """int: the highest temperature of the sensor's default range, in degrees Celsius."""
    current_temp: int
    """int: the temperature, in degrees Celsius."""
    target: ThermalTarget
    """ThermalTarget: the location of the sensor."""


class ThermalSettings(Items[ThermalSensor]):
    """The thermal sensors of a device, a sequence (nvmlDeviceGetThermalSettings)."""

    __slots__ = ()

    def __init__(self, handle: Handle, target: ThermalTarget | str) -> None:
        found = call("device_get_thermal_settings", handle, as_number(target, _TARGETS, "sensor_index"))
        super().__init__(
            ThermalSensor(
                as_name(int(sensor.controller), _CONTROLLERS, ThermalController.UNKNOWN),
                int(sensor.default_min_temp),
                int(sensor.default_max_temp),
                int(sensor.current_temp),
                as_name(int(sensor.target), _TARGETS, ThermalTarget.NONE),
            )
            for sensor, _ in zip(found.sensor, range(int(found.count)), strict=False)
        )


class Temperature:
    """Temperatures of a device, in degrees Celsius."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def get_sensor(self) -> int:
        """Return the temperature of the GPU, in degrees Celsius (nvmlDeviceGetTemperatureV)."""
        return int(call("device_get_temperature_v", self._handle, _GPU_SENSOR))

    def get_threshold(self, threshold_type: TemperatureThresholds | str) -> int:
        """Return a threshold, in degrees Celsius (nvmlDeviceGetTemperatureThreshold).

        From Ada on, :meth:`Device.get_field_values` with the fields ``DEV_TEMPERATURE_*`` returns the thresholds for
        shutdown and slowdown, and the highest temperatures.

        Parameters
        ----------
        threshold_type : TemperatureThresholds or str
            The threshold.
        """
        number = as_number(threshold_type, _THRESHOLDS, "threshold_type")
        return int(call("device_get_temperature_threshold", self._handle, number))

    @property
    def margin(self) -> int:
        """int: degrees Celsius to the nearest threshold of a slowdown (nvmlDeviceGetMarginTemperature)."""
        return int(call("device_get_margin_temperature", self._handle))

    def get_thermal_settings(self, sensor_index: ThermalTarget | str) -> ThermalSettings:
        """Return the sensors at a location (nvmlDeviceGetThermalSettings).

        Parameters
        ----------
        sensor_index : ThermalTarget or str
            The location; ``"all"`` means all sensors.
        """
        return ThermalSettings(self._handle, sensor_index)
